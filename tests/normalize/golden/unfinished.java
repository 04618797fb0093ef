/** Half of a file: what can be told of it is told. */
class Sluice {
    Sluice(int gates) { this.gates = gates; }

    void open( {
        int count = gates;

    int level() { return 3; }
