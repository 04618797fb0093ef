"""Jobs: their states, the queue, delivery, failures, quarantine and history."""
