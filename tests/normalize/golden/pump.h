#ifndef PUMP_H
#define PUMP_H
#define LITRES(x) ((x) * 1000)

namespace pump {
/* A pump. */
class Pump {
 public:
  int *start(int speed) { return nullptr; }
};
enum Mode { IDLE, FULL };
}

#endif
