"""Questions with a frozen answer procedure, and the models they ask about."""
