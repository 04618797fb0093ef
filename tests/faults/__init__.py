"""Fault injection across the whole system: clocks, disks, kills, networks and versions."""
