"""`qaic-runner-sim`: the vendor's runner, answered by the simulated card.

flags           every option of the real tool: spelling, value, default, what it does here
command_line    an argument vector as the options that it gives
help            what -h prints
request         options as what is to be run, printed and written
running         one request: run, print, write
stages          the spans of an inference between its moments
profiles        which inferences are measured, and their files
latency         the latency file
opstats         the statistics file
outputs         values: fed, written, compared
writing         printed lines and files
app             the console script: output streams and exit codes
"""
