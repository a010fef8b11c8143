// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4}"

// 42 elements are ten vectors and two elements: the last vector begins at 38 and copies two of them again.
// CHECK: %c40 = arith.constant 40 : index
// CHECK: gather.loop inner(%j) = %{{.*}} to %c40 step %c4
// CHECK: vector.store
// CHECK: %c38 = arith.constant 38 : index
// CHECK: gather.loop inner_rest(%j_1) = %c38 to %n_inner step %c4
// CHECK: %masks{{.*}} = vector.broadcast
// CHECK: vector.store %{{.*}}, %out[%{{.*}}, %j_1] : memref<1x1x70x42xi32>, vector<4xi32>
// CHECK-NOT: memref.store
func.func @gather(%data: tensor<9x42xf32>, %indices: tensor<70xi64>) -> tensor<70x42xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x42xf32>, tensor<70xi64> -> tensor<70x42xf32>
  func.return %r : tensor<70x42xf32>
}
