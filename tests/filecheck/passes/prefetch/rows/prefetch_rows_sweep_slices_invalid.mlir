// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=outer lines=0}" --verify-diagnostics

// expected-error@unknown {{lines=0 is for rows of one index each in outer; expected 1 or more}}
func.func @gather(%data: tensor<30x9xf32>, %indices: tensor<70xi64>) -> tensor<30x70xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9xf32>, tensor<70xi64> -> tensor<30x70xf32>
  func.return %r : tensor<30x70xf32>
}
