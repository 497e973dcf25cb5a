"""Why a rule fires at a place or does not: the matcher tests the rule again with a witness."""
