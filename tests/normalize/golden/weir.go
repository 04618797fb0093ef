package weir

// Gate is a gate of the weir.
type Gate struct {
	open bool
}

type Level = float64

// Raise opens the gate.
func (g *Gate) Raise(by Level) error {
	g.open = by > 0
	return nil
}

func New() *Gate { return &Gate{} }
