// RUN: gathernest-opt %s -p "unroll{loop=inner factor=4}"

// Nine iterations from 1 on are two steps of four, which end at 9, and one more.
// CHECK: %c9 = arith.constant 9 : index
// CHECK: gather.loop inner(%j) = %c1 to %c9 step %c4
// CHECK: gather.loop inner_rest(%j_4) = %c9 to %c10 step %c1
func.func @gather(%a: memref<10xi32>, %b: memref<10xi32>) {
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  gather.loop inner(%j) = %c1 to %c10 step %c1 {
    %x = memref.load %a[%j] : memref<10xi32>
    memref.store %x, %b[%j] : memref<10xi32>
  }
  func.return
}
