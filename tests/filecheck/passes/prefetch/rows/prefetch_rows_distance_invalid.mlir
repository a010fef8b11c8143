// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=indices ahead=4097}" --verify-diagnostics

// expected-error@unknown {{expected ahead of 1 to 4096, got 4097}}
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
