// RUN: gathernest-opt %s -p hoist-invariants

// What is added to is another number after each iteration.
// CHECK: gather.loop ordered indices(%i)
// CHECK-NEXT: %sum = memref.load %out[%c0]
// CHECK-NEXT: memref.store %sum, %before[%i]
// CHECK-NEXT: gather.accumulate %x, %out[%c0]
func.func @gather(%out: memref<8xf32>, %before: memref<9xf32>, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = arith.constant 9 : index
  gather.loop ordered indices(%i) = %c0 to %count step %c1 {
    %sum = memref.load %out[%c0] : memref<8xf32>
    memref.store %sum, %before[%i] : memref<9xf32>
    gather.accumulate %x, %out[%c0] : f32, memref<8xf32>
  }
  func.return
}
