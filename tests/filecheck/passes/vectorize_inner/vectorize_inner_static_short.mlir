// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4}"

// Three elements fill no vector, and none can end with the row: they are copied one by one.
// CHECK: gather.loop inner(%j) = %{{.*}} to %c0{{.*}} step %c4
// CHECK: gather.loop inner_rest(%j_1) = %c0{{.*}} to %n_inner step %c1
// CHECK: memref.store
func.func @gather(%data: tensor<9x3xf32>, %indices: tensor<70xi64>) -> tensor<70x3xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x3xf32>, tensor<70xi64> -> tensor<70x3xf32>
  func.return %r : tensor<70x3xf32>
}
