"""Jobs: the queue, delivery, failures, quarantine and history."""
