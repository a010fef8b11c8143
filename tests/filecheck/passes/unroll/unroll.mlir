// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,unroll{loop=inner factor=3}"

// CHECK: %rest = arith.remui %n_inner, %c3_1 : index
// CHECK: gather.loop inner(%j) = %{{.*}} to %whole step %c3_2
// CHECK: memref.store %{{.*}}, %out[%{{.*}}, %j]
// CHECK: %j_1 = arith.addi %j, %c1
// CHECK: memref.store %{{.*}}, %out[%{{.*}}, %j_1]
// CHECK: %j_2 = arith.addi %j, %c2
// CHECK: memref.store %{{.*}}, %out[%{{.*}}, %j_2]
// CHECK-NOT: memref.store %{{.*}}, %out[%{{.*}}, %j_
// CHECK: gather.loop inner_rest(%j_3) = %whole to %n_inner step
// CHECK: memref.store %{{.*}}, %out[%{{.*}}, %j_3]
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
