"""Where to run a model: on one machine, or cut into layer ranges on several. Pure."""
