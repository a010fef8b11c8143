// RUN: gathernest-opt %s -p "prefetch{what=rows loop=outer}"

// How far apart the elements of a row lie is not known: one for each of the two indices of a step.
// CHECK: gather.loop indices(%i)
// CHECK: %sweep = arith.muli %i, %c1{{.*}} : index
// CHECK: memref.prefetch %data[%ahead, %row_line]
// CHECK: memref.prefetch %data[%ahead, %row_line_1]
// CHECK-NOT: memref.prefetch
func.func @gather(%data: memref<?x?xi32, strided<[?, ?]>>, %indices: memref<?xindex>, %out: memref<?x?xi32>, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop outer(%o) = %c0 to %m step %c1 {
    gather.loop indices(%i) = %c0 to %n step %c2 {
      %p = memref.load %indices[%i] : memref<?xindex>
      %x = memref.load %data[%o, %p] : memref<?x?xi32, strided<[?, ?]>>
      memref.store %x, %out[%o, %i] : memref<?x?xi32>
      %k = arith.addi %i, %c1 : index
      %q = memref.load %indices[%k] : memref<?xindex>
      %y = memref.load %data[%o, %q] : memref<?x?xi32, strided<[?, ?]>>
      memref.store %y, %out[%o, %k] : memref<?x?xi32>
    }
  }
  func.return
}
