// RUN: gathernest-opt %s -p "nest,drop-unit-loops,unroll{loop=indices factor=5},prefetch{what=rows loop=outer}" --verify-diagnostics

// expected-error@unknown {{lines=1 holds 16 rows, and indices takes 5 indices a step; use another number of lines}}
func.func @gather(%data: tensor<30x9xf32>, %indices: tensor<70xi64>) -> tensor<30x70xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9xf32>, tensor<70xi64> -> tensor<30x70xf32>
  func.return %r : tensor<30x70xf32>
}
