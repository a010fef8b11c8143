// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch-indices{loop=outer}" --verify-diagnostics

// expected-error@unknown {{the rows of outer are asked for line by line in the innermost loop, which must count the indices of a row, one an element}}
func.func @gather(%data: tensor<3x9x4xf32>, %indices: tensor<7xi64>) -> tensor<3x7x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<3x9x4xf32>, tensor<7xi64> -> tensor<3x7x4xf32>
  func.return %r : tensor<3x7x4xf32>
}
