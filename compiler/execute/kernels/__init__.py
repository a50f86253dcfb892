"""Values of operators in numpy, one module a family."""
