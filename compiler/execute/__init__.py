"""Programs and graphs run for their values: no time, but every number as the device has it."""
