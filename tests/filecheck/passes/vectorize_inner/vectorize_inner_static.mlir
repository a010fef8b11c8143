// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=8}"

// 40 elements are five vectors: nothing is left.
// CHECK: gather.loop inner(%j) = %{{.*}} to %n_inner step %c8
// CHECK: vector.store
// CHECK-NOT: gather.loop
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
