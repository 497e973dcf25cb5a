"""Why a rule fires at a place or does not: the matcher's own questions, asked again with a witness."""
