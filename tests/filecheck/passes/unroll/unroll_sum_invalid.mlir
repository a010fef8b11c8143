// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,unroll{loop=check_indices factor=2}" --verify-diagnostics

// expected-error@unknown {{check_indices is a sum; unroll a loop inside it}}
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
