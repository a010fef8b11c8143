// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=batch}" --verify-diagnostics

// expected-error@unknown {{a slice of data that batch reads is prefetched in parts by a loop in it that counts indices, and there is none}}
func.func @gather(%data: tensor<3x9x4xf32>, %indices: tensor<3x7x2xi64>) -> tensor<3x7xf32> {
  %r = gather.gather_nd %data, %indices batch_dims 1 bounds zero : tensor<3x9x4xf32>, tensor<3x7x2xi64> -> tensor<3x7xf32>
  func.return %r : tensor<3x7xf32>
}
