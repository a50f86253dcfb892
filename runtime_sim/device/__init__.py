"""The card: what each task costs its engine, and the rates that all engines share."""
