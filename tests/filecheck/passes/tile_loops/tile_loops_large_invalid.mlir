// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices,indices_o sizes=4,536870913}" --verify-diagnostics

// expected-error@unknown {{expected a tile of 1 to 536870912 iterations for indices_o, got 536870913}}
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
