// RUN: gathernest-opt %s -p "hoist-invariants"

// What the first loop stores to may have changed: it is loaded again before the second one.
// CHECK: %x = memref.load %a[%c0]
// CHECK: gather.loop first(%i)
// CHECK: %y = memref.load %a[%c0]
// CHECK: gather.loop second(%j)
func.func @gather(%a: memref<4xi32>, %b: memref<?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : i32
  %x = memref.load %a[%c0] : memref<4xi32>
  gather.loop first(%i) = %c0 to %n step %c1 {
    memref.store %c3, %a[%c0] : memref<4xi32>
  }
  gather.loop second(%j) = %c0 to %n step %c1 {
    %y = memref.load %a[%c0] : memref<4xi32>
    memref.store %y, %b[%j] : memref<?xi32>
  }
  memref.store %x, %b[%c0] : memref<?xi32>
  func.return
}
