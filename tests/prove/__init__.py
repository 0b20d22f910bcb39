"""Everything that a guarantee rests on and CI leaves out, stage by stage: `make prove`."""
