"""Why a rule may be believed, and why a rewritten model may: runs of models, and what they must agree in."""
