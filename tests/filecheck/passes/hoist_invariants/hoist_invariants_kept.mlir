// RUN: gathernest-opt %s -p hoist-invariants --split-input-file

// A load of what the nest stores to stays.
// CHECK-LABEL: func.func @gather(%stored
// CHECK: gather.loop a(
// CHECK-NEXT: memref.load %stored
func.func @gather(%stored: memref<6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = memref.load %stored[%c0] : memref<6xi32>
    memref.store %x, %stored[%i] : memref<6xi32>
  }
  func.return
}

// -----

// So does any load where something else may write.
// CHECK-LABEL: func.func @gather(%shared
// CHECK: gather.loop a(
// CHECK-NEXT: memref.load %shared
func.func @gather(%shared: memref<6xi32>, %out: memref<6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = memref.load %shared[%c0] : memref<6xi32>
    memref.store %x, %out[%i] : memref<6xi32>
    func.call @touch(%shared) : (memref<6xi32>) -> ()
  }
  func.return
}
func.func private @touch(memref<6xi32>)

// -----

// A load moves with a constant subscript within a static size, and with no other: the loop may run no iteration.
// CHECK-LABEL: func.func @gather(%places
// CHECK: %last = memref.load %places[%c5]
// CHECK-NEXT: gather.loop a(
// CHECK-NEXT: %past = memref.load %places[%c6]
// CHECK-NEXT: %somewhere = memref.load %places[%n]
func.func @gather(%places: memref<6xi32>, %out: memref<6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %last = memref.load %places[%c5] : memref<6xi32>
    %past = memref.load %places[%c6] : memref<6xi32>
    %somewhere = memref.load %places[%n] : memref<6xi32>
    memref.store %last, %out[%i] : memref<6xi32>
    memref.store %past, %out[%i] : memref<6xi32>
    memref.store %somewhere, %out[%i] : memref<6xi32>
  }
  func.return
}

// -----

// A division by a size that may be 0 stays.
// CHECK-LABEL: func.func @gather(%dividend
// CHECK: gather.loop a(
// CHECK-NEXT: arith.remsi
func.func @gather(%dividend: i64, %size: i64, %out: memref<6xi64>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = arith.remsi %dividend, %size : i64
    memref.store %x, %out[%i] : memref<6xi64>
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @gather(%divided
// CHECK: arith.remsi
// CHECK-NEXT: gather.loop a(
func.func @gather(%divided: i64, %size: i64, %out: memref<6xi64>, %n: index) attributes {gather.min_axis_sizes = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = arith.remsi %divided, %size : i64
    memref.store %x, %out[%i] : memref<6xi64>
  }
  func.return
}

// -----

// A masked load stays: where its mask is false it may not be touched.
// CHECK-LABEL: func.func @gather(%masked
// CHECK: gather.loop a(
// CHECK-NEXT: gather.masked_load
func.func @gather(%masked: memref<6xi32>, %mask: i1, %out: memref<6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = gather.masked_load %masked[%c0], %mask : memref<6xi32> -> i32
    memref.store %x, %out[%i] : memref<6xi32>
  }
  func.return
}

// -----

// Values that depend on no induction variable leave all loops.
// CHECK-LABEL: func.func @gather(%invariant
// CHECK: arith.addi %invariant
// CHECK: gather.loop a(
// CHECK: gather.loop b(
func.func @gather(%invariant: i32, %out: memref<6x6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    gather.loop b(%j) = %c0 to %n step %c1 {
      %x = arith.addi %invariant, %invariant : i32
      memref.store %x, %out[%i, %j] : memref<6x6xi32>
    }
  }
  func.return
}
