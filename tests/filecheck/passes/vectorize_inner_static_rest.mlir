// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4}"

// 42 elements are ten vectors and two elements.
// CHECK: gather.loop inner(%j) = %{{.*}} to %whole step %c4
// CHECK: gather.loop inner_rest(%j_1) = %whole to %n_inner step
func.func @gather(%data: tensor<9x42xf32>, %indices: tensor<70xi64>) -> tensor<70x42xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x42xf32>, tensor<70xi64> -> tensor<70x42xf32>
  func.return %r : tensor<70x42xf32>
}
