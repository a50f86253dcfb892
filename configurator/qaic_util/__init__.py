"""`qaic-util-sim`: the vendor's card listing, answered for a simulated card.

flags      every option of the real tool, and what it does here
help       what -h prints
card       what is known of a simulated card that runs nothing
request    options as which cards are shown, and how
listing    text, table and JSON
app        the console script: output streams and exit codes
"""
