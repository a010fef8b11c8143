// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=4},gather-lanes"

// A remainder has no form as a vector.
// CHECK-NOT: gathered
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds wrap : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
