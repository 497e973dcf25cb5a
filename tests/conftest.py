"""How hypothesis runs here: a slow or busy machine is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("rewriter", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rewriter")
