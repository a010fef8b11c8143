// RUN: gathernest-opt %s -p "nest,tile-loops{loops=indices sizes=3 tail=perfect},erase-sizes" --verify-diagnostics

// expected-error@unknown {{the end of indices_i relies on the sizes; run erase-sizes before that}}
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<6xi64>) -> tensor<6x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  func.return %r : tensor<6x4xf32>
}
