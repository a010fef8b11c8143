// RUN: gathernest-opt %s -p canonical,lower-to-nest,lower-nest-to-loops --verify-diagnostics

// expected-error@unknown {{a gather.resolve is left; run fold-bounds first}}
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<6xi64>) -> tensor<6x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  func.return %r : tensor<6x4xf32>
}
