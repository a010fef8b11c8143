// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=outer,indices sizes=16,4},interchange-loops{order=outer_o,indices_o,outer_i,indices_i,inner},parallelize-loops{loops=outer_o,indices_o,outer_i}" --verify-diagnostics

// expected-error@unknown {{the bounds of outer_i come from outer_o; only one of them can be parallel}}
func.func @gather(%data: tensor<40x30x50xf32>, %indices: tensor<20xi64>) -> tensor<40x20x50xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<40x30x50xf32>, tensor<20xi64> -> tensor<40x20x50xf32>
  func.return %r : tensor<40x20x50xf32>
}
