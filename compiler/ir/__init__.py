"""The compiler's intermediate representation: an immutable graph of concrete shapes."""
