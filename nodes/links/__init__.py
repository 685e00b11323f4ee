"""The links of the chain that a tool call goes through, one file each: `act` has their list."""
