"""The measurements: the rollups of the metrics, and the incidents."""
