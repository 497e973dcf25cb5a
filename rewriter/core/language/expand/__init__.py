"""Forms of the language that stand for several plain ones: what comes out is what one would write without them."""
