// RUN: gathernest-opt %s -p "hoist-invariants"

// Of another type, with another attribute, or of memory that was stored to by its other name: each is computed for itself.
// CHECK: %x = memref.load %rows[%c0]
// CHECK: arith.trunci %n : i64 to i32
// CHECK: arith.addi %n, %n : i64
// CHECK: gather.loop first(%i)
// CHECK: %y = memref.load %rows[%c0]
// CHECK: arith.trunci %n : i64 to i16
// CHECK: arith.addi %n, %n {kept} : i64
// CHECK: gather.loop second(%j)
func.func @gather(%a: memref<4x1xi32>, %b: memref<?xi32>, %c: memref<?xi16>, %d: memref<?xi64>, %n: i64, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %rows = memref.collapse_shape %a [[0, 1]] : memref<4x1xi32> into memref<4xi32>
  %x = memref.load %rows[%c0] : memref<4xi32>
  memref.store %x, %b[%c0] : memref<?xi32>
  gather.loop first(%i) = %c0 to %c4 step %c1 {
    %small = arith.trunci %n : i64 to i32
    memref.store %small, %a[%i, %c0] : memref<4x1xi32>
    %twice = arith.addi %n, %n : i64
    memref.store %twice, %d[%i] : memref<?xi64>
  }
  gather.loop second(%j) = %c0 to %m step %c1 {
    %y = memref.load %rows[%c0] : memref<4xi32>
    memref.store %y, %b[%j] : memref<?xi32>
    %smaller = arith.trunci %n : i64 to i16
    memref.store %smaller, %c[%j] : memref<?xi16>
    %again = arith.addi %n, %n {kept} : i64
    memref.store %again, %d[%j] : memref<?xi64>
  }
  func.return
}
