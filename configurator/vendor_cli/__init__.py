"""What the answers to the vendor's command lines share.

values    how each value is written, and what is said of text that cannot be one
flag      one option: spellings, value, default, what it does here
line      the options that a command line gives
getopt    an argument vector by the rules of getopt_long_only
card      the simulated card that the environment names
help      what -h prints, from a table of options
stats     the lines of results that the vendor's tools print
"""
