"""Limits shared by all processes: buckets, host slots, breakers and the operator's rules."""
