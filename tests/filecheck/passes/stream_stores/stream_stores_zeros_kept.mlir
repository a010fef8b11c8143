// RUN: gathernest-opt %s -p "stream-stores"

// CHECK: gather.loop clear_axis
// CHECK-NEXT: memref.store %nothing
// CHECK-NOT: nontemporal
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32, strided<[2]>>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %nothing = arith.constant 0.0 : f32
  gather.loop clear_axis(%j) = %c0 to %n step %c1 {
    memref.store %nothing, %out[%j] : memref<?xf32, strided<[2]>>
  }
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %x = memref.load %grad[%i] : memref<?xf32>
    gather.accumulate %x, %out[%i] : f32, memref<?xf32, strided<[2]>>
  }
  func.return
}
