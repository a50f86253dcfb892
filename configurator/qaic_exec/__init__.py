"""`qaic-exec-sim`: the vendor's compiler command line, answered by our compiler and simulator.

flags           every option of the real tool: spelling, value, default, what it does here
command_line    an argument vector as the options that it gives
help            what -h and --usage print
request         options as compile options, outputs and reports
compiling       one request: compile, report, write, run
metrics         what -aic-perf-metrics and -ddr-stats count
advice          what -aic-perf-warnings says
app             the console script: output streams and exit codes
"""
