// RUN: gathernest-opt %s -p "interchange-loops{order=b,a}" --split-input-file

// What a loop of another nest counts is there from the start.
// CHECK: gather.loop around(%[[AROUND:.*]]) =
// CHECK-NEXT: gather.loop b(%{{.*}}) =
// CHECK-NEXT: gather.loop a(%[[A:.*]]) =
// CHECK-NEXT: memref.load %weights[%[[AROUND]], %[[A]]]
func.func @gather(%weights: memref<?x?xi32>, %out: memref<?x?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop around(%k) = %c0 to %n step %c1 {
    gather.loop a(%i) = %c0 to %n step %c1 {
      %weight = memref.load %weights[%k, %i] : memref<?x?xi32>
      gather.loop b(%j) = %c0 to %n step %c1 {
        memref.store %weight, %out[%i, %j] : memref<?x?xi32>
      }
    }
  }
  func.return
}

// -----

// A load stays inside the loops around it: where one of them never runs, nor does the load.
// CHECK: gather.loop b(%{{.*}}) =
// CHECK-NEXT: gather.loop a(%{{.*}}) =
// CHECK-NEXT: memref.load %weights[%c0]
func.func @gather(%weights: memref<?xi32>, %out: memref<?x?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %weight = memref.load %weights[%c0] : memref<?xi32>
    gather.loop b(%j) = %c0 to %n step %c1 {
      memref.store %weight, %out[%i, %j] : memref<?x?xi32>
    }
  }
  func.return
}
