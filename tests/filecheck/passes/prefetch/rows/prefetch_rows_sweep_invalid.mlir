// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=indices lines=0}" --verify-diagnostics

// expected-error@unknown {{lines=0 expects one loop in indices, which copies a row; use 1 or more lines}}
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
