"""What `configurator profile` shows: tables, a document, a trace, and two runs side by side."""
