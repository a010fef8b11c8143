// RUN: gathernest-opt %s -p lower-to-nest

// CHECK: gather.loop batch(%b) = %{{.*}} to %n_batch step
// CHECK-NEXT: gather.loop outer(%o)
// CHECK-NEXT: gather.loop indices(%i)
// CHECK-NEXT: gather.loop inner(%j)
// CHECK-NEXT: %index = memref.load %indices[%b, %i]
// CHECK-NEXT: %position, %valid = gather.resolve %index within %n_axis bounds zero : i64
// CHECK-NEXT: %element = gather.masked_load %data[%b, %o, %position, %j], %valid
// CHECK-NEXT: memref.store %element, %out[%b, %o, %i, %j]
func.func @gather(%data: memref<1x2x5x12xi32>, %indices: memref<1x42xi64>, %out: memref<1x2x42x12xi32>) {
  gather.gather %data, %indices into %out axis 2 batch_dims 1 bounds zero : memref<1x2x5x12xi32>, memref<1x42xi64>, memref<1x2x42x12xi32>
  func.return
}
