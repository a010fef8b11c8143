// RUN: gathernest-opt %s -p drop-unit-loops --split-input-file

// A loop that runs no iteration stays, and so does one that does not begin at 0.
// CHECK-LABEL: func.func @gather(%out
// CHECK: gather.loop none(
// CHECK: gather.loop late(
// CHECK: gather.loop a(
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %late = arith.constant -1 : index
  gather.loop none(%b) = %c0 to %c0 step %c1 {
    gather.loop late(%l) = %late to %c1 step %c1 {
      gather.loop a(%i) = %c0 to %n step %c1 {
        memref.store %x, %out[%i] : memref<6xi32>
      }
    }
  }
  func.return
}

// -----

// The last loop is left though it runs once; one of several inside another is not.
// CHECK-LABEL: func.func @gather(%out
// CHECK: gather.loop a(
// CHECK-NOT: gather.loop
// CHECK: func.return
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    gather.loop b(%j) = %c0 to %c1 step %c1 {
      memref.store %x, %out[%i] : memref<6xi32>
    }
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @gather(%out
// CHECK: gather.loop last(
func.func @gather(%out: memref<6xi32>, %x: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop last(%i) = %c0 to %c1 step %c1 {
    memref.store %x, %out[%i] : memref<6xi32>
  }
  func.return
}
