"""What a skill needs of the machine: gathered from its files, held against what is here, brought if asked."""
