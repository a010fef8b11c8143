// RUN: gathernest-opt %s -p "unroll{loop=inner factor=2}"

// CHECK: gather.loop ordered inner(%j) = %c0 to %whole step
// CHECK: memref.store %x, %out[%j]
// CHECK: memref.store %x, %out[%j_1]
// CHECK: gather.loop ordered inner_rest(%j_2) = %whole to %n step %c1
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop ordered inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}
