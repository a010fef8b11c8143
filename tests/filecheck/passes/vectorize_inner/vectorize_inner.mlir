// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8}"

// CHECK: %rest = arith.remui %n_inner, %c8 : index
// CHECK: %whole = arith.subi %n_inner, %rest : index
// CHECK: gather.loop inner(%j) = %{{.*}} to %whole step %c8
// CHECK: %loaded = vector.load %data[%{{.*}}, %j] : memref<1x1x?x?xi32>, vector<8xi32>
// CHECK: %mask = arith.extsi %inside : i1 to i32
// CHECK: %masks = vector.broadcast %mask : i32 to vector<8xi32>
// CHECK: %element = arith.andi %loaded, %masks : vector<8xi32>
// CHECK: vector.store %element, %out[%{{.*}}, %j] : memref<1x1x?x?xi32>, vector<8xi32>
// CHECK: gather.loop inner_rest(%j_1) = %whole to %n_inner step
// CHECK: memref.store
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
