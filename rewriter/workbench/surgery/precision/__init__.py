"""Models that compute in another floating-point type."""
